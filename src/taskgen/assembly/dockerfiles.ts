import { saveBaseScript } from './collect-hook.ts'

/** Image of the agent: the environment of the test runs and a copy of the base repository. */
export const agentDockerfile = (environment: string): string => `${withNewline(environment)}RUN ${saveBaseScript()}`

/**
 * The same lines as the agent's image, so that layers are shared, and then the tests. Harbor adds nothing to /tests
 * here. Only root can read it: tests run as another user.
 */
export const verifierDockerfile = (environment: string): string =>
  `${withNewline(environment)}COPY ${GRADER} /tests
RUN chmod -R u=rwX,go= /tests && chmod 700 /tests/test.sh
`

/** Beside the files that the environment is built from, whose names are not ours to choose. */
export const GRADER = 'grader'

const withNewline = (text: string): string => (text.endsWith('\n') ? text : `${text}\n`)
