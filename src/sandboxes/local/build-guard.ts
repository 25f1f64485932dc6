import { DEFAULT_LIMITS } from '../../harbor/default-limits.ts'

/**
 * Shell, as root in a mount namespace of its own. buildah's commands see the `/dev` and the `/proc` of this machine, and
 * are its root: so there are only devices that lead nowhere, and settings of the kernel that can only be read.
 */
export const BUILD_GUARD = `place=/dev/shm; [ -d "$place" ] || place=/mnt
mount -t tmpfs -o mode=755,nosuid,noexec tmpfs "$place"
for name in null zero full random urandom tty; do : > "$place/$name"; mount --bind "/dev/$name" "$place/$name"; done
mkdir "$place/pts" "$place/shm"
mount -t devpts -o newinstance,nosuid,noexec,ptmxmode=0666,mode=620 devpts "$place/pts"
mount -t tmpfs -o mode=1777,nosuid,nodev,size=${DEFAULT_LIMITS.shmMb}m tmpfs "$place/shm"
ln -s pts/ptmx "$place/ptmx"; ln -s /proc/self/fd "$place/fd"
ln -s /proc/self/fd/0 "$place/stdin"; ln -s /proc/self/fd/1 "$place/stdout"; ln -s /proc/self/fd/2 "$place/stderr"
mount --move "$place" /dev
for name in sys irq bus fs sysrq-trigger; do
  if [ -e "/proc/$name" ]; then mount --bind "/proc/$name" "/proc/$name"; mount -o remount,bind,ro "/proc/$name"; fi
done`
