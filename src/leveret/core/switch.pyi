class Switch:
    on: bool
