//! A user at a terminal: runs the program on a real pseudo-terminal and reads its screen.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Upper bound for anything that must appear on the screen.
const PATIENCE: Duration = Duration::from_secs(20);

/// A terminal with a running program.
pub struct Terminal {
    child: Child,
    keys: File,
    shown: Receiver<Vec<u8>>,
    /// Everything that the terminal has shown.
    pub screen: String,
    /// Offset in `screen` up to which the text was expected.
    read: usize,
}

impl Terminal {
    /// Runs a command on a new terminal.
    pub fn run(command: &mut Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let path = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave = || Stdio::from(OpenOptions::new().read(true).write(true).open(&path).unwrap());
        let child = command.stdin(slave()).stdout(slave()).stderr(slave()).spawn().unwrap();
        // Otherwise the command would keep the slave side open, and its end would go unnoticed.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let keys = File::from(master);
        let mut screen = keys.try_clone().unwrap();
        let (sender, shown) = channel();
        thread::spawn(move || {
            let mut some = [0; 4_096];
            // The end is an error (EIO): no process has the slave side open any more.
            while let Ok(n @ 1..) = screen.read(&mut some) {
                if sender.send(some[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, keys, shown, screen: String::new(), read: 0 }
    }

    /// Waits until this text appears after the previous match and returns everything shown up to its end.
    pub fn until(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.screen[self.read..].find(text) {
                let end = self.read + at + text.len();
                let passed = self.screen[self.read..end].to_owned();
                self.read = end;
                return passed;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(more) = self.shown.recv_timeout(left) else {
                panic!("`{text}` was not shown; this was:\n{}", &self.screen[self.read..]);
            };
            self.screen.push_str(&String::from_utf8_lossy(&more));
        }
    }

    /// Sends SIGINT, as Ctrl-C does.
    pub fn interrupt(&self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
    }

    /// Types a line.
    pub fn enter(&mut self, line: &str) {
        self.press(&format!("{line}\n"));
    }

    /// Types keys without Enter.
    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the program exits; returns its status and the screen.
    pub fn end(mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().unwrap() {
                while let Ok(more) = self.shown.recv_timeout(Duration::from_millis(200)) {
                    self.screen.push_str(&String::from_utf8_lossy(&more));
                }
                return (status, self.screen.clone());
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("the program has not ended; it shows:\n{}", self.screen);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Fails if the program has already exited.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
