"""`leveret top`: a server as it works, in a terminal.

command.py   `leveret top`: the loop around facts, view and terminal; or one look, without a terminal
facts.py     what the live view asks a server for, in a few requests that are small however many queues there are
screen.py    the screen of the live view: facts and a view in, lines of text out
terminal.py  the terminal of the live view: keys in, lines out
view.py      the view: the column that sorts, the filter, how far it is scrolled; and what keys do to it
"""
