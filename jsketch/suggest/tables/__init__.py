"""`jsketch-suggest`: the next batch of experiments for a table of candidates.

It needs the extra `tables`: `pip install "jsketch[tables]"`.

    cells            reads and writes tables
    molecules        fingerprints of molecules
    candidates       candidates and evaluations from tables
    options          the options of the command
    inputs           the tables that the options name
    results          the batch and the predictions of all candidates
    messages         the verdict, and sentences about tables, model and candidates
    factors          levels and main effects of the conditions
    pictures         the pictures of the page
    page             the page for the browser
    outputs          the choice of the batch, and the files that are written
    main             the command
"""
