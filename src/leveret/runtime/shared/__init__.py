"""What all nodes know together: Redis keeps it, and what a node remembers itself takes its place while that is away."""
