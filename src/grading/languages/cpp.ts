import type { LanguageEcosystem, Runner, SourceLanguage } from './language.ts'
import { completeRecipe, type EnvRecipe } from './recipe.ts'

/** Folder of the first build; the runner builds there again. */
const BUILD = 'build'

/** CTest identifies tests by name, not by file, so all of them run. It shuffles without a seed. */
const ctest: Runner = {
  id: 'ctest',
  name: 'CTest',
  report: 'ctest',
  shuffles: true,
  selects: false,
  isFallback: false,
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

const buildRecipe = (): EnvRecipe =>
  completeRecipe({
    runner: ctest.id,
    aptPackages: ['cmake', 'g++', 'make'],
    build: [`cmake -S . -B ${BUILD}`, `cmake --build ${BUILD} --parallel 2`],
  })

const C_SYNTAX = { comments: 'slashes', singleQuote: 'character', hasInlineTests: false } as const
const sources: SourceLanguage[] = [
  { name: 'c', extensions: ['c', 'h'], ...C_SYNTAX },
  { name: 'cpp', extensions: ['cc', 'cpp', 'cxx', 'hpp', 'hh', 'hxx', 'ipp', 'inl'], ...C_SYNTAX },
]

export const cpp: LanguageEcosystem = {
  id: 'cpp',
  sources,
  tests: {
    names: [/^test_.+\.(c|cc|cpp)$/, /_tests?\.(c|cc|cpp|cxx)$/],
    support: [],
    extensions: ['.c', '.cc', '.cpp', '.cxx', '.h', '.hpp'],
  },
  dependencyFiles: [],
  buildFiles: ['cmakelists.txt', 'cmakepresets.json', 'meson.build', 'makefile', 'configure.ac'],
  buildFilePatterns: [],
  readTestFiles: null,
  publishedPackages: () => [],
  publishedCopy: null,
  runners: [{ runner: ctest, buildRecipe, artefacts: ['/build/', '/Testing/'], buildArgs: [] }],
  hidesModules: false,
  testConfiguration: [],
  stubs: [],
}
