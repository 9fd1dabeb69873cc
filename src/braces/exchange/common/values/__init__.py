"""Values that are known at import time, and arithmetic on them."""
