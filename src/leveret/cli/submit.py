"""What spark-submit is given: the jobs of `leveret pipeline`.

job=$(python -c 'from leveret.cli import submit; print(submit.__file__)')
spark-submit --master spark://host:7077 "$job" archive --path data --out archive
"""

import sys

from leveret.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["pipeline", *sys.argv[1:]]))
