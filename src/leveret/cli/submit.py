"""What spark-submit is given: the jobs of `leveret pipeline`.

job=$(python -c 'from leveret.cli import submit; print(submit.__file__)')
spark-submit --master spark://host:7077 "$job" archive --path data --out archive
"""

import os
import sys

if __name__ == "__main__":
    # The directory of a script comes first on its path, and modules beside this one have names of Python's own.
    sys.path[:] = [each for each in sys.path if os.path.abspath(each) != os.path.dirname(os.path.abspath(__file__))]
    from leveret.cli.main import main

    sys.exit(main(["pipeline", *sys.argv[1:]]))
