"""Job traces: files of past jobs, read and written; what is written can be read again."""
