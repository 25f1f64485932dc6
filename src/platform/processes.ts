import { codeOf } from './errors.ts'

/** Returns true if no process has the id, as far as the PID namespace of this process shows. */
export function hasProcessEnded(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return false
  } catch (error) {
    return codeOf(error) === 'ESRCH'
  }
}
