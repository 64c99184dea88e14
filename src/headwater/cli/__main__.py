"""`python -m headwater.cli`"""

from headwater.cli.main import main

if __name__ == "__main__":
    main()
