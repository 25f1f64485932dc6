import { keepBase } from './collect-hook.ts'

/** Where agents work: what the tests ran in, and a copy of what the repository was. */
export const agentDockerfile = (environment: string): string => `${ended(environment)}RUN ${keepBase()}`

/**
 * The same lines, so that it is built once, and then the tests. Harbor puts nothing into /tests here. Only root may look
 * there: what is tested runs as somebody else.
 */
export const verifierDockerfile = (environment: string): string =>
  `${ended(environment)}COPY ${GRADER} /tests
RUN chmod -R u=rwX,go= /tests && chmod 700 /tests/test.sh
`

/** Beside the files that the environment is built from, whose names are not ours to choose. */
export const GRADER = 'grader'

const ended = (text: string): string => (text.endsWith('\n') ? text : `${text}\n`)
