"""Reports of the books as pages, JSON, files and mails: all from one sheet."""
