"""`jsketch-suggest`: the next batch of experiments for a table of candidates.

It needs the packages of the extra: `pip install "jsketch[tables]"`.

    cells            reads and writes tables
    molecules        fingerprints of molecules
    candidates       candidates and evaluations from tables
    options          the options of the command
    inputs           the tables that the options name
    messages         sentences about tables, model and candidates
    page             the page with pictures
    main             the command
"""
