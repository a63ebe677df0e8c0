"""What each method does: one file for each AMQP class, a table from the method's type to its function."""
