import { quote } from '../../sandboxes/kernel/shell.ts'
import type { TreeFacts } from '../suite.ts'
import {
  escapePattern,
  type LanguageEcosystem,
  type PublishedPackage,
  type Runner,
  type SourceLanguage,
  USUAL_EXITS,
} from './language.ts'
import { completeRecipe, DEPS, type EnvRecipe, listFilesNamed, listPresent, listTextsNamed } from './recipe.ts'

/** A build ends before it would profit from the optimising compiler and parallel collector. They took a third of its processor time. */
const SHORT_LIVED_JVM = '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC'

/**
 * Runs all tests once during the build: Maven determines the plug-ins it needs only then. Failures are ignored and the
 * reports removed.
 */
const buildMavenRecipe = (tree: TreeFacts): EnvRecipe =>
  completeRecipe({
    runner: maven.id,
    aptPackages: ['default-jdk-headless', 'maven'],
    // Tests run in a Java process of their own, which these options do not reach.
    env: { MAVEN_OPTS: `-Dmaven.repo.local=${DEPS}/m2 ${SHORT_LIVED_JVM}` },
    manifests: [
      ...listFilesNamed(tree, /^pom\.xml$/),
      ...listPresent(tree, '.mvn/maven.config', '.mvn/extensions.xml'),
    ],
    // Fails where modules depend on each other, and still downloads most dependencies.
    setup: ['mvn -B -q dependency:go-offline || true'],
    build: [
      'mvn -B -q -fae test -Dmaven.test.failure.ignore=true',
      'find . -name surefire-reports -type d -prune -exec rm -rf {} +',
    ],
  })

function buildGradleRecipe(tree: TreeFacts): EnvRecipe {
  const hasWrapper = tree.paths.has('gradlew')
  const program = hasWrapper ? 'sh ./gradlew' : 'gradle'
  return completeRecipe({
    runner: gradle.id,
    aptPackages: ['default-jdk-headless', ...(hasWrapper ? [] : ['gradle'])],
    env: { GRADLE_USER_HOME: `${DEPS}/gradle` },
    build: [`${program} --no-daemon -q test --continue || ${program} --no-daemon -q testClasses`],
  })
}

const POM_LENGTH_MAX = 64 * 1024

/** Returns `group:artifact` and the version of the project itself, ignoring its dependencies. */
function findArtifact(pom: string): PublishedPackage | undefined {
  const text = pom.slice(0, POM_LENGTH_MAX)
  const sections = listSections(text)
  const parent = sections.find(({ tag }) => tag === 'parent')?.text ?? ''
  const project = removeSections(text, sections)
  const findValue = (name: string, xml: string) => new RegExp(`<${name}>\\s*([\\w.-]+)\\s*</${name}>`).exec(xml)?.[1]
  const group = findValue('groupId', project) ?? findValue('groupId', parent)
  const artifact = findValue('artifactId', project)
  if (group === undefined || artifact === undefined) return undefined
  return { name: `${group}:${artifact}`, version: findValue('version', project) ?? findValue('version', parent) }
}

/** An element of a `pom.xml`, with its tags. `index`: its position in the text. */
type PomSection = { tag: string; text: string; index: number }

function removeSections(text: string, sections: readonly PomSection[]): string {
  let remaining = ''
  let end = 0
  for (const section of sections) {
    remaining += text.slice(end, section.index)
    end = section.index + section.text.length
  }
  return remaining + text.slice(end)
}

/** Lists sections that do not describe the project itself. Takes linear time, even if none of them is closed. */
function listSections(text: string): PomSection[] {
  const sections: PomSection[] = []
  const unclosed = new Set<string>()
  let lastEnd = 0
  for (const { 1: tag = '', index } of text.matchAll(/<(parent|dependencies|build|profiles|dependencyManagement)>/g)) {
    if (index < lastEnd || unclosed.has(tag)) continue
    const closingTag = `</${tag}>`
    const closingIndex = text.indexOf(closingTag, index)
    if (closingIndex === -1) unclosed.add(tag)
    else {
      lastEnd = closingIndex + closingTag.length
      sections.push({ tag, text: text.slice(index, lastEnd), index })
    }
  }
  return sections
}

const JVM_SYNTAX = { comments: 'slashes', singleQuote: 'character', hasInlineTests: false } as const
const sources: SourceLanguage[] = [
  { name: 'java', extensions: ['java'], ...JVM_SYNTAX },
  { name: 'kotlin', extensions: ['kt', 'kts'], ...JVM_SYNTAX },
]

const BUILD_ARGS = ['JAVA_TOOL_OPTIONS']

/** Matches the path of a test class: the folder of its module, and the class. */
const JAVA_TEST: RegExp = /^(?:(?<module>.*)\/)?src\/test\/(?:java|kotlin|groovy)\/(?<type>.+)\.(?:java|kt|groovy)$/

const isJavaTest = (path: string): boolean =>
  JAVA_TEST.test(path) && /(^|\/)(Test[^/]*|[^/]*(Tests?|TestCase|Spec|IT))\.\w+$/.test(path)

/** Service files through which JUnit, TestNG, Spock and the compiler load code from the class path. */
const JAVA_SERVICES = ['org.junit.*', 'org.testng.*', 'org.spockframework.*', 'javax.annotation.processing.Processor']

/**
 * Returns shell code that runs a command and copies the reports that it writes, one per class, from the build folders to
 * `$ASSAY_REPORT`. Reports of earlier runs are removed first.
 */
const renderWithReports = (folder: string, command: string): string =>
  `find . -type d -path '*/${folder}' -prune -exec rm -rf {} +
${command}
code=$?
find . -path '*/${folder}/*' -name 'TEST-*.xml' -type f | sort | {
  count=0
  while IFS= read -r file; do count=$((count + 1)); cp "$file" "$ASSAY_REPORT/$count.xml"; done
}
exit $code`

/**
 * Returns `:app:test --tests org.example.ShapesTest` for a test file. Names the Gradle project, because projects without
 * the test would fail.
 */
function toGradleTask(path: string): string[] {
  const { module, type } = JAVA_TEST.exec(path)?.groups ?? {}
  if (type === undefined) return []
  const project = module === undefined ? '' : `:${module.replaceAll('/', ':')}`
  return [`${quote(`${project}:test`)} --tests ${quote(type.replaceAll('/', '.'))}`]
}

/** Uses the Gradle wrapper of the repository if there is one. The image contains its distribution. */
const gradle: Runner = {
  id: 'gradle',
  name: 'Gradle',
  report: 'junit-files',
  shuffles: false,
  selects: false,
  isFallback: false,
  detect: ({ paths }) =>
    ['build.gradle', 'build.gradle.kts', 'settings.gradle', 'settings.gradle.kts'].some((name) => paths.has(name)),
  isTarget: isJavaTest,
  command({ targets }) {
    const tasks = targets.flatMap(toGradleTask)
    const taskWords = tasks.length === 0 ? 'test' : tasks.join(' ')
    const program = 'if [ -f gradlew ]; then gradle="sh gradlew"; else gradle=gradle; fi'
    return renderWithReports(
      'test-results',
      `${program}\n$gradle --offline --no-daemon --continue --console=plain ${taskWords}`,
    )
  },
  prepare: [],
  exits: USUAL_EXITS,
  settings: [
    '*.gradle',
    '*.gradle.kts',
    'gradle.properties',
    'gradle/',
    'gradlew',
    'libs.versions.toml',
    'buildSrc/',
    'build-logic/',
    'junit-platform.properties',
    ...JAVA_SERVICES,
  ],
  tools: [],
}

const findClassName = (path: string): string | undefined => JAVA_TEST.exec(path)?.groups?.type

/**
 * Continues with other modules after a failure. A module that does not compile has no report, so its tests do not
 * count.
 */
const maven: Runner = {
  id: 'maven',
  name: 'Maven',
  report: 'junit-files',
  shuffles: true,
  selects: false,
  isFallback: false,
  detect: ({ paths }) => paths.has('pom.xml'),
  isTarget: isJavaTest,
  command({ targets, seed }) {
    const classes = targets.flatMap((path) => findClassName(path) ?? [])
    const select = classes.length === 0 ? '' : ` ${quote(`-Dtest=${classes.join(',')}`)}`
    const shuffle = seed === null ? '' : ` -Dsurefire.runOrder=random -Dsurefire.runOrder.random.seed=${seed}`
    const allowNoTests = '-DfailIfNoTests=false -Dsurefire.failIfNoSpecifiedTests=false'
    return renderWithReports('surefire-reports', `mvn -o -B -ntp -fae ${allowNoTests}${shuffle}${select} test`)
  },
  prepare: [],
  exits: USUAL_EXITS,
  settings: ['pom.xml', '.mvn/', 'mvnw', 'junit-platform.properties', ...JAVA_SERVICES],
  tools: [],
}

export const java: LanguageEcosystem = {
  id: 'java',
  sources,
  tests: {
    names: [/[a-z0-9](Test|Tests|TestCase|Spec|IT)\.(java|kt)$/],
    support: [],
    extensions: ['.java', '.kt'],
  },
  dependencyFiles: ['pom.xml', 'build.gradle', 'build.gradle.kts', 'gradle.lockfile', 'libs.versions.toml'],
  buildFiles: [
    'pom.xml',
    'build.gradle',
    'build.gradle.kts',
    'settings.gradle',
    'settings.gradle.kts',
    'gradle-wrapper.properties',
  ],
  buildFilePatterns: [],
  readTestFiles: null,
  publishedPackages: (tree) => listTextsNamed(tree, /^pom\.xml$/).flatMap((text) => findArtifact(text) ?? []),
  publishedCopy: (name) => {
    const [group = '', artifact = ''] = name.split(':')
    return `/m2/(?:.*/)?${escapePattern(group.replaceAll('.', '/'))}/${escapePattern(artifact)}$`
  },
  runners: [
    { runner: maven, buildRecipe: buildMavenRecipe, artefacts: ['target/'], buildArgs: BUILD_ARGS },
    { runner: gradle, buildRecipe: buildGradleRecipe, artefacts: ['build/', '.gradle/'], buildArgs: BUILD_ARGS },
  ],
  hidesModules: false,
  testConfiguration: [],
  stubs: [],
}
