import { type NamespaceOptions, type NamespaceProcess, startNamespaceProcess } from '../kernel/namespace-process.ts'

/** Holders without anything of a sandbox in them. Starting one costs three processes, more than many a sandbox. */
export type HolderPool = {
  take(): Promise<NamespaceProcess>
  /** Reports whether the process belongs to this pool. */
  owns(holder: NamespaceProcess): boolean
  /** Gives back a process whose sandbox and mounts have been removed. */
  giveBack(holder: NamespaceProcess): Promise<void>
}

const SPARE_MAX = 8

export function holderPool(options: Pick<NamespaceOptions, 'rootless' | 'ownProcesses'>): HolderPool {
  const spare: NamespaceProcess[] = []
  const ours = new WeakSet<NamespaceProcess>()
  return {
    async take() {
      for (let holder = spare.pop(); holder !== undefined; holder = spare.pop()) {
        if (holder.hasExited()) continue
        holder.setReferenced(true)
        return holder
      }
      const holder = await startNamespaceProcess({ ...options, beside: undefined, cwd: '/' })
      ours.add(holder)
      return holder
    },
    owns: (holder) => ours.has(holder),
    async giveBack(holder) {
      if (spare.length >= SPARE_MAX || holder.hasExited()) return holder.end()
      // This process need not stay for the sake of those that wait.
      holder.setReferenced(false)
      spare.push(holder)
    },
  }
}
