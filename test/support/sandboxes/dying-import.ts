import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createLayer, openStore } from '../../../src/sandboxes/local/image-store.ts'

/** Imports an image and is killed midway. Argument: the folder of the store. */
const [folder = ''] = process.argv.slice(2)
await createLayer(await openStore(folder), async (draft) => {
  await writeFile(join(draft, 'half'), 'of it')
  process.kill(process.pid, 'SIGKILL')
})
