"""The commands of the command line, a module each: ``add_parser`` describes it, ``run`` gives the exit code."""
