import { EventEmitter, once } from 'node:events'
import type { MockUsage } from './conversation.ts'
import { type CallFault, Fault, type FaultInput, ProviderScript, type ScriptInput } from './script.ts'

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
  usage: MockUsage | null
  /** True if the entire answer including its usage was sent. */
  isUsageSaid: boolean
}

export type Books = ReturnType<typeof newBooks>

/** Creates the state of a provider: the current script and faults, and the recorded calls. */
export function newBooks(given: ScriptInput) {
  let script = ProviderScript.parse(given)
  let faults = [...script.faults]
  let calls: Booked[] = []
  const arrivals = new EventEmitter()
  return {
    script: (): ProviderScript => script,
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
      script = ProviderScript.parse(next)
      faults = [...script.faults]
    },
    forget(): void {
      calls = []
      faults = []
    },
    /** Returns the fault of this call, empty if there is none. */
    takeTrouble(): CallFault {
      const [fault, ...others] = faults
      if (!fault) return {}
      faults = fault.times > 1 ? [{ ...fault, times: fault.times - 1 }, ...others] : others
      return fault
    },
  }
}
