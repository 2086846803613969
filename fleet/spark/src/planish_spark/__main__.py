"""What ``python -m planish_spark`` runs, and what ``spark-submit`` takes as its program."""

from planish_spark.command import run

if __name__ == "__main__":
    run()
