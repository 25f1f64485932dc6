import { quote } from '../../sandboxes/local/shell.ts'
import { isJavaTest, JAVA_SERVICES, JAVA_TEST, withReports } from './java.ts'
import { type Runner, ZERO_OR_ONE } from './runner.ts'

const toClassName = (path: string): string[] => [JAVA_TEST.exec(path)?.groups?.type ?? []].flat()

/** Modules go on after one that failed. One that does not compile has no report, and its tests do not count. */
export const maven: Runner = {
  id: 'maven',
  name: 'Maven',
  report: 'junit-files',
  shuffles: true,
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
