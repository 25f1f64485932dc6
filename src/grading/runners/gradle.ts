import { quote } from '../../sandboxes/local/shell.ts'
import { isJavaTest, JAVA_SERVICES, JAVA_TEST, withReports } from './java.ts'
import { type Runner, ZERO_OR_ONE } from './runner.ts'

/** `:app:test --tests org.example.ShapesTest`: a project that has no such test would complain. */
function toGradleTask(path: string): string[] {
  const { module, type } = JAVA_TEST.exec(path)?.groups ?? {}
  if (type === undefined) return []
  const project = module === undefined ? '' : `:${module.replaceAll('/', ':')}`
  return [`${quote(`${project}:test`)} --tests ${quote(type.replaceAll('/', '.'))}`]
}

/** The wrapper of the repository if it has one: its distribution lies in the image. */
export const gradle: Runner = {
  id: 'gradle',
  name: 'Gradle',
  report: 'junit-files',
  shuffles: false,
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
