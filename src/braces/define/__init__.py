"""What an operator is: schema, kinds of attributes, inference, and the decorator."""
