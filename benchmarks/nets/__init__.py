"""Three nets to train, written for each library as its users would write them."""
