"""Does a backend keep its word? Schemas with test instances, judged from the masks. Used by the command line only."""
