"""The forms of interactive sessions."""
