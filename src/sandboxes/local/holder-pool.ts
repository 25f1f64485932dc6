import { type Holder, type HolderOptions, startHolder } from '../kernel/holder.ts'

/** Holders without anything of a sandbox in them. Starting one costs three processes, more than many a sandbox. */
export type HolderPool = {
  take(): Promise<Holder>
  /** Whether it came from here. */
  owns(holder: Holder): boolean
  /** One whose sandbox is gone, with all its mounts. */
  giveBack(holder: Holder): Promise<void>
}

const SPARE_MAX = 8

export function holderPool(options: Pick<HolderOptions, 'rootless' | 'ownProcesses'>): HolderPool {
  const spare: Holder[] = []
  const ours = new WeakSet<Holder>()
  return {
    async take() {
      for (let holder = spare.pop(); holder !== undefined; holder = spare.pop()) {
        if (holder.isGone()) continue
        holder.beAwaited(true)
        return holder
      }
      const holder = await startHolder({ ...options, beside: undefined, cwd: '/' })
      ours.add(holder)
      return holder
    },
    owns: (holder) => ours.has(holder),
    async giveBack(holder) {
      if (spare.length >= SPARE_MAX || holder.isGone()) return holder.end()
      // This process need not stay for the sake of those that wait.
      holder.beAwaited(false)
      spare.push(holder)
    },
  }
}
