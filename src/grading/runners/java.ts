import { quote } from '../../sandboxes/kernel/shell.ts'
import { type Runner, ZERO_OR_ONE } from './runner.ts'

/** Matches the path of a test class: the folder of its module, and the class. */
const JAVA_TEST: RegExp = /^(?:(?<module>.*)\/)?src\/test\/(?:java|kotlin|groovy)\/(?<type>.+)\.(?:java|kt|groovy)$/

const isJavaTest = (path: string): boolean =>
  JAVA_TEST.test(path) && /(^|\/)(Test[^/]*|[^/]*(Tests?|TestCase|Spec|IT))\.\w+$/.test(path)

/** Service files through which JUnit, TestNG, Spock and the compiler load code from the class path. */
const JAVA_SERVICES = ['org.junit.*', 'org.testng.*', 'org.spockframework.*', 'javax.annotation.processing.Processor']

/**
 * Gradle and Maven write one report per class into build folders. Removes old reports first and collects the new ones.
 */
const withReports = (folder: string, command: string): string =>
  `find . -type d -path '*/${folder}' -prune -exec rm -rf {} +
${command}
code=$?
find . -path '*/${folder}/*' -name 'TEST-*.xml' -type f | sort | {
  count=0
  while IFS= read -r file; do count=$((count + 1)); cp "$file" "$ASSAY_REPORT/$count.xml"; done
}
exit $code`

/**
 * Returns `:app:test --tests org.example.ShapesTest`. Names the project, because others would fail for lack of the
 * test.
 */
function toGradleTask(path: string): string[] {
  const { module, type } = JAVA_TEST.exec(path)?.groups ?? {}
  if (type === undefined) return []
  const project = module === undefined ? '' : `:${module.replaceAll('/', ':')}`
  return [`${quote(`${project}:test`)} --tests ${quote(type.replaceAll('/', '.'))}`]
}

/** Uses the Gradle wrapper of the repository if there is one. The image contains its distribution. */
export const gradle: Runner = {
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
    const words = tasks.length === 0 ? 'test' : tasks.join(' ')
    const program = 'if [ -f gradlew ]; then gradle="sh gradlew"; else gradle=gradle; fi'
    return withReports('test-results', `${program}\n$gradle --offline --no-daemon --continue --console=plain ${words}`)
  },
  prepare: [],
  exits: ZERO_OR_ONE,
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

const toClassName = (path: string): string[] => [JAVA_TEST.exec(path)?.groups?.type ?? []].flat()

/**
 * Continues with other modules after a failure. A module that does not compile has no report, so its tests do not
 * count.
 */
export const maven: Runner = {
  id: 'maven',
  name: 'Maven',
  report: 'junit-files',
  shuffles: true,
  selects: false,
  isFallback: false,
  detect: ({ paths }) => paths.has('pom.xml'),
  isTarget: isJavaTest,
  command({ targets, seed }) {
    const types = targets.flatMap(toClassName)
    const named = types.length === 0 ? '' : ` ${quote(`-Dtest=${types.join(',')}`)}`
    const shuffle = seed === null ? '' : ` -Dsurefire.runOrder=random -Dsurefire.runOrder.random.seed=${seed}`
    const quiet = '-DfailIfNoTests=false -Dsurefire.failIfNoSpecifiedTests=false'
    return withReports('surefire-reports', `mvn -o -B -ntp -fae ${quiet}${shuffle}${named} test`)
  },
  prepare: [],
  exits: ZERO_OR_ONE,
  settings: ['pom.xml', '.mvn/', 'mvnw', 'junit-platform.properties', ...JAVA_SERVICES],
  tools: [],
}
