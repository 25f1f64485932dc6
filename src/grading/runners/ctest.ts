import type { Runner } from './runner.ts'

/** Where images build, and where tests are built again. */
const BUILD = 'build'

/** It knows tests by names and not by files: all of them are run. Its order is changed without a seed. */
export const ctest: Runner = {
  id: 'ctest',
  name: 'CTest',
  ecosystem: 'cpp',
  report: 'ctest',
  shuffles: true,
  detect: ({ paths }) => paths.has('CMakeLists.txt'),
  isTarget: () => false,
  command: ({ seed }) =>
    `ctest --test-dir ${BUILD} --output-junit "$ASSAY_REPORT/report"${seed === null ? '' : ' --schedule-random'}`,
  prepare: [`cmake -S . -B ${BUILD}`, `cmake --build ${BUILD} --parallel 2`],
  exits: { passed: [0], failed: [8] },
  settings: [
    'CTestConfig.cmake',
    'CTestCustom.cmake',
    'CTestCustom.ctest',
    'CTestTestfile.cmake',
    'CMakePresets.json',
    'CMakeUserPresets.json',
  ],
  tools: [],
}
