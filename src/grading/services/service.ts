/** A server that a CI file declares, with everything needed to start it in the sandbox of the tests. */
export type ServiceUse = {
  /** Id of a row of `services.ts`. */
  service: string
  /** Image that the CI file names. */
  image: string
  port: number
  /** Names besides localhost under which the tests reach it. */
  hosts: string[]
  /** Variables of the server's container, such as `POSTGRES_PASSWORD`. */
  env: Record<string, string>
}

/** A server program that can be installed from Debian packages and started by an unprivileged user. */
export type Service = {
  id: string
  name: string
  /** Matches an image name without registry, tag and digest. */
  image: RegExp
  port: number
  listPackages(base: string, image: string): string[]
  /** Shell lines for the image, run as root after the packages are installed. */
  toolchain: readonly string[]
  /** Returns the first fault of the variables, or undefined if the server can be started with them. */
  findFault(env: Record<string, string>): string | undefined
  /**
   * Returns shell lines that start the server in the background and return when it accepts connections. They use the
   * variables and functions of `services.ts`. `data` is a path for its files that does not exist yet.
   */
  start(use: ServiceUse, data: string): string[]
}

/** Name of a user or a database. Anything else would need quoting in SQL. */
const IDENTIFIER = /^[A-Za-z0-9_][\w.$-]{0,62}$/

/** Returns a fault if one of these variables has a value that is not a plain name. */
export const findNameFault = (env: Record<string, string>, names: readonly string[]): string | undefined => {
  const bad = names.find((name) => env[name] !== undefined && env[name] !== '' && !IDENTIFIER.test(env[name]))
  return bad === undefined ? undefined : `${bad} is not a plain name.`
}

/** Returns the first of these variables that is set and not empty. */
export const firstOf = (env: Record<string, string>, ...names: string[]): string | undefined =>
  names.map((name) => env[name]).find((value) => value !== undefined && value !== '')
