import { serveTasks } from '../platform/threads/serve-tasks.ts'
import { keepFiles, spoolArtifact } from './artifact-files.ts'
import { convertTrajectory } from './convert-trajectory.ts'
import { writePatch } from './patch-file.ts'

/** The script of the threads that read what agents left. */
const tasks = { convertTrajectory, writePatch, spoolArtifact, keepFiles }
export type TrialTasks = typeof tasks

serveTasks(tasks)
