"""The dashboard, and the server of `seriatim web`. Applications import seriatim.web."""
