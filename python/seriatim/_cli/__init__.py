"""The command seriatim."""
