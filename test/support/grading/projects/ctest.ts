import { findRunner } from '../../../../src/grading/languages/languages.ts'
import type { SampleProject } from '../sample-project.ts'

export const ctestSample: SampleProject = {
  runner: 'ctest',
  tree: {
    '.gitignore': 'build\n',
    'CMakeLists.txt': `cmake_minimum_required(VERSION 3.20)
project(shapes CXX)
enable_testing()
add_executable(shapes_test tests/shapes_test.cpp)
foreach(name square wrong crash "größe of 面積")
  add_test(NAME "\${name}" COMMAND shapes_test "\${name}")
endforeach()
add_test(NAME later COMMAND shapes_test later)
set_tests_properties(later PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME off COMMAND shapes_test square)
set_tests_properties(off PROPERTIES DISABLED TRUE)
add_test(NAME missing COMMAND no-such-program)
`,
    'shapes.hpp': 'inline int area(int side) { return side * side; }\n',
    'tests/shapes_test.cpp': `#include "../shapes.hpp"
#include <cstdio>
#include <cstdlib>
#include <string>
int main(int, char **words) {
  std::string name = words[1];
  std::printf("\\x1b[31m<failure/>\\x1b[0m %s\\n", words[1]);
  if (name == "later") return 77;
  if (name == "crash") std::abort();
  if (name == "wrong") { std::puts("got 4, want 5"); return area(2) != 5; }
  return area(2) != 4;
}
`,
  },
  prepare: [...(findRunner('ctest')?.prepare ?? [])],
  statuses: {
    square: 'passed',
    wrong: 'failed',
    crash: 'failed',
    'größe of 面積': 'passed',
    later: 'skipped',
    off: 'skipped',
    missing: 'errored',
  },
  target: null,
  targetStatuses: {},
  failureMessage: ['wrong', 'Failed'],
}
