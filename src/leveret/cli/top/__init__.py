"""`leveret top`: a server as it works, in a terminal.

command.py   `leveret top`: the loop around facts, view and terminal; or one look, without a terminal
screen.py    the screen of the live view: facts and a view in, lines of text out
terminal.py  the terminal of the live view: keys in, lines out
view.py      what keys do to the live view, and the facts that it shows
"""
