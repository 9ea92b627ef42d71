from jsketch.suggest.tables.main import main

main()
