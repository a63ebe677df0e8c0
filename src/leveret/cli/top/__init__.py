"""`leveret top`: a server as it works, in a terminal.

command.py  `leveret top`: the loop around facts, view and terminal, or one look; keys in, lines out
screen.py   the screen of the live view: facts and a view in, lines of text out
view.py     what keys do to the live view, and the facts that it shows
"""
