import { EventEmitter, once } from 'node:events'
import type { Tokens } from './conversation.ts'
import { Fault, type FaultInput, Script, type ScriptInput, type Trouble } from './script.ts'

/** One call, as the provider has it in its own books. */
export type Booked = {
  protocol: string
  model: string
  /** The model that answered. */
  served: string
  level: string | null
  isStream: boolean
  status: number
  tools: string[]
  results: number
  /** What it bills. Null: nothing, because it did not answer. */
  usage: Tokens | null
  /** The usage has gone out, with all of the answer. */
  isUsageSaid: boolean
}

export type Books = ReturnType<typeof newBooks>

/** Which script and faults hold now, and what was called. */
export function newBooks(given: ScriptInput) {
  let script = Script.parse(given)
  let faults = [...script.faults]
  let calls: Booked[] = []
  const arrivals = new EventEmitter()
  return {
    script: (): Script => script,
    calls: (): Booked[] => calls,
    /** Comes back when so many have arrived. */
    async whenCalls(count: number): Promise<void> {
      while (calls.length < count) await once(arrivals, 'call')
    },
    /** The number of this call. */
    book(call: Booked): number {
      const number = calls.push(call)
      arrivals.emit('call')
      return number
    },
    addFault: (fault: FaultInput): void => void faults.push(Fault.parse(fault)),
    setScript(next: ScriptInput): void {
      script = Script.parse(next)
      faults = [...script.faults]
    },
    forget(): void {
      calls = []
      faults = []
    },
    /** What goes wrong with this call. Nothing in it: all is well. */
    takeTrouble(): Trouble {
      const [fault, ...others] = faults
      if (!fault) return {}
      faults = fault.times > 1 ? [{ ...fault, times: fault.times - 1 }, ...others] : others
      return fault
    },
  }
}
