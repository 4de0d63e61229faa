//! Examples at the end of help texts.

pub(super) const MUSTER: &str = "\
Begin with:
  muster run -- bash -c 'echo hello'    run a program in a session
  muster session ls                     list sessions
  muster tail SESSION --follow          see what one prints
A SESSION or TASK is an id, or its beginning where only one has it.";

pub(super) const RUN: &str = "\
Examples:
  muster run -- make test                        follow it to its end; Ctrl-C leaves it running
  muster run --detach -- ./agent --verbose       print the session's id and return
  muster run --cwd ~/project --env TOKEN -- ./x  elsewhere, with $TOKEN as it is here
The exit code is the program's own, 128 + N when signal N ended it, and 125 when Muster failed.";

pub(super) const WAIT: &str = "\
Examples:
  muster wait 0190a --timeout 10m && muster tail 0190a    its output, once it has ended
  muster wait 0190a --for attention                       until it asks something, or has ended";

pub(super) const SEND: &str = "\
Examples:
  muster send 0190a \"run the tests again\"
  git diff --stat | tail -n 1 | muster send 0190a -
  muster send 0190a yes --wait written                    until it is in the program's input";

pub(super) const TAIL: &str = "\
Examples:
  muster tail 0190a                     the last 64 KiB
  muster tail 0190a --from start -f     everything, and what is still to come
  muster tail 0190a --json              one JSON object a line, with `run` and `next`
  muster tail 0190a --from 1:4096       exactly from there: RUN:NEXT";

pub(super) const COMPLETIONS: &str = "\
Examples:
  source <(muster completions bash)                                      in ~/.bashrc
  source <(muster completions zsh)                                       in ~/.zshrc
  muster completions fish > ~/.config/fish/completions/muster.fish       once";
