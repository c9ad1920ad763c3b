# A third of the problems of problems.txt.
# shellcheck source=tests/kernels/problems.bash
. tests/kernels/problems.bash
prove_part 2
