"""Files of reports and of the whole month: asked for, kept, sent regularly."""
