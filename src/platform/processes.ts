import { codeOf } from './errors.ts'

/** Tells whether no process of this machine has the id. */
export function hasProcessEnded(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return false
  } catch (error) {
    return codeOf(error) === 'ESRCH'
  }
}
