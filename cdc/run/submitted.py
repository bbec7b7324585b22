"""What `spark-submit` runs on the driver: the command line again, now with a cluster behind it."""

import sys

if __name__ == "__main__":
    from cdc.__main__ import main

    sys.exit(main())
