"""The web page for operators: its files, and the login of the user who opens it.

handler.py  the handler of / and of everything under /console/: the files of the page, and its login
"""
