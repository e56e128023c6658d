"""cli: parse, call one function, render. One module per verb; nothing heavy is imported before a verb needs it."""
