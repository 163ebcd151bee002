#!/usr/bin/python3
"""boot_machine.py PLACE BUILD PROGRAM...: becomes systemd, PID 1 of a machine in which BUILD is installed below /usr.

Runs in namespaces of its own (machine.py). The machine has the files of this one, but whatever is written there is in PLACE's
memory and gone with it; PROGRAMs are in its /usr/local/bin. It has no services but those of its own boot. Exit 77: that
cannot be made here, and the last line says why.
"""
import os
import pathlib
import shutil
import subprocess
import sys

SYSTEMD = "/lib/systemd/systemd"
DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0), "net/tun": (10, 200)}
# What a boot does to a machine that is not its own.
MASKED = ("systemd-udev-trigger.service", "systemd-udevd.service", "systemd-modules-load.service", "systemd-sysctl.service",
          "systemd-remount-fs.service", "systemd-binfmt.service", "systemd-random-seed.service", "kmod-static-nodes.service",
          "dev-hugepages.mount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount", "sys-fs-fuse-connections.mount",
          "systemd-firstboot.service", "systemd-machine-id-commit.service", "systemd-update-utmp.service")
TARGET = """[Unit]
Description=A machine of the tests
Requires=basic.target
After=basic.target
AllowIsolate=yes
"""
# Whoever trains on the box's machine.
USERS = "u trainee -\nm trainee tally\nu stranger -\n"


def mount(kind, where, options="", what=None):
    where.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["mount", "-t", kind, *(["-o", options] if options else []), what or kind, str(where)],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"a machine needs a {kind} on {where.name}; the kernel said: {done.stderr.strip()}")
        sys.exit(77)


def fill(root, build, programs):
    """What this machine has beside the files of ours."""
    subprocess.run(["cmake", "--install", build, "--prefix", str(root / "usr")], stdout=subprocess.DEVNULL, check=True)
    for program in programs:
        shutil.copy(program, root / "usr/local/bin")
    units = root / "etc/systemd/system"
    shutil.rmtree(units)
    units.mkdir()
    for name in MASKED:
        (units / name).symlink_to("/dev/null")
    (units / "machine.target").write_text(TARGET)
    (root / "usr/lib/sysusers.d/trainee.conf").write_text(USERS)
    (root / "etc/machine-id").write_text("00000000000000000000000000007a11\n")
    (root / "etc/fstab").write_text("")  # no disk of this machine is one of that
    (root / "etc/crypttab").unlink(missing_ok=True)
    shutil.rmtree(root / "etc/tally", ignore_errors=True)
    (root / "etc/tally").mkdir()
    shutil.rmtree(root / "var/lib/tally", ignore_errors=True)
    shutil.rmtree(root / "var/log/journal", ignore_errors=True)  # the journal stays in memory
    subprocess.run(["ldconfig", "-r", str(root)], check=True)


def mount_all(root):
    mount("proc", root / "proc")
    mount("sysfs", root / "sys")
    mount("cgroup2", root / "sys/fs/cgroup")
    mount("tmpfs", root / "dev", "mode=755")
    mount("tmpfs", root / "run", "mode=755")
    mount("tmpfs", root / "tmp", "mode=1777")
    for name, (major, minor) in DEVICES.items():
        path = root / "dev" / name
        path.parent.mkdir(exist_ok=True)
        os.mknod(path, 0o020666, os.makedev(major, minor))
        path.chmod(0o666)
    mount("tmpfs", root / "dev/shm", "mode=1777")
    mount("devpts", root / "dev/pts", "newinstance,ptmxmode=666")
    (root / "dev/ptmx").symlink_to("pts/ptmx")
    # As a machine has them: of root.
    mount("hugetlbfs", root / "dev/hugepages", "pagesize=2M")


def main():
    place, build, programs = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    if not pathlib.Path(SYSTEMD).exists():
        print("needs systemd: apt-get install systemd")
        return 77
    mount("tmpfs", place, "mode=755")
    root, above, work = place / "root", place / "above", place / "work"
    above.mkdir()
    work.mkdir()
    mount("overlay", root, f"lowerdir=/,upperdir={above},workdir={work}")
    fill(root, build, programs)
    mount_all(root)
    os.chdir(root)
    (root / "mnt").mkdir(exist_ok=True)
    subprocess.run(["pivot_root", ".", "mnt"], check=True)
    os.chroot(".")
    subprocess.run(["umount", "--lazy", "/mnt"], check=True)
    print("systemd begins", flush=True)
    os.execve(SYSTEMD, [SYSTEMD, "--unit=machine.target", "--log-target=journal", "--show-status=no"],
              {"container": "tally-tests", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"})


if __name__ == "__main__":
    sys.exit(main())
