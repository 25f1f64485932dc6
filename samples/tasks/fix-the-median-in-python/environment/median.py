import sys


def median(numbers):
    ordered = sorted(numbers)
    return ordered[len(ordered) // 2]


if __name__ == "__main__":
    numbers = [float(argument) for argument in sys.argv[1:]]
    if not numbers:
        print("nothing")
        sys.exit(1)
    print(f"{median(numbers):.1f}")
