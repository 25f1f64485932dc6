import { EventEmitter, once } from 'node:events'
import type { Tokens } from './conversation.ts'
import { Fault, type FaultInput, Script, type ScriptInput, type Trouble } from './script.ts'

/** A call as recorded by the provider. */
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
  /** Billed tokens, or null if the provider did not answer. */
  usage: Tokens | null
  /** True if the entire answer including its usage was sent. */
  isUsageSaid: boolean
}

export type Books = ReturnType<typeof newBooks>

/** Creates the state of a provider: the current script and faults, and the recorded calls. */
export function newBooks(given: ScriptInput) {
  let script = Script.parse(given)
  let faults = [...script.faults]
  let calls: Booked[] = []
  const arrivals = new EventEmitter()
  return {
    script: (): Script => script,
    calls: (): Booked[] => calls,
    /** Resolves when this many calls have arrived. */
    async whenCalls(count: number): Promise<void> {
      while (calls.length < count) await once(arrivals, 'call')
    },
    /** Records a call and returns its number. */
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
    /** Returns the fault of this call, empty if there is none. */
    takeTrouble(): Trouble {
      const [fault, ...others] = faults
      if (!fault) return {}
      faults = fault.times > 1 ? [{ ...fault, times: fault.times - 1 }, ...others] : others
      return fault
    },
  }
}
