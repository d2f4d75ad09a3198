//! A terminal with somebody at it: the program runs at a real pseudo-terminal, and what it shows there is read.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// How long anything may take until it is shown.
const PATIENCE: Duration = Duration::from_secs(20);

/// Somebody at a terminal where a program runs.
pub struct Terminal {
    child: Child,
    keys: File,
    shown: Receiver<Vec<u8>>,
    /// All that the terminal has shown.
    pub screen: String,
    /// Up to where that was expected.
    read: usize,
}

impl Terminal {
    /// Runs a command at a terminal of its own.
    pub fn run(command: &mut Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let path = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave = || Stdio::from(OpenOptions::new().read(true).write(true).open(&path).unwrap());
        let child = command.stdin(slave()).stdout(slave()).stderr(slave()).spawn().unwrap();
        // The command holds the other side until it is told otherwise; then its end would not be heard.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let keys = File::from(master);
        let mut screen = keys.try_clone().unwrap();
        let (sender, shown) = channel();
        thread::spawn(move || {
            let mut some = [0; 4_096];
            // Its end is an error (EIO): nobody has the other side any more.
            while let Ok(n @ 1..) = screen.read(&mut some) {
                if sender.send(some[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, keys, shown, screen: String::new(), read: 0 }
    }

    /// Waits until this is shown, after what was waited for before; what is shown up to there.
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

    /// Types a line.
    pub fn enter(&mut self, line: &str) {
        self.press(&format!("{line}\n"));
    }

    /// Types, and no Enter with it.
    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the end of the program.
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
        // One that has ended cannot be killed any more.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
