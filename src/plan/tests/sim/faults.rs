//! What happens to a node, by chance.

use super::World;
use super::instance::Instance;
use super::machine::Machine;
use super::pods::{IMAGES, SLOTS, VARIANTS};
use crate::plan::{Halt, ImagePresence};

const FIFTY_YEARS_MS: i64 = 50 * 365 * 86_400_000;

impl World {
    /// One thing happens, or a while passes.
    pub fn step(&mut self) {
        match self.dice.below(100) {
            0..4 => self.edit(),
            4 => self.remove(),
            5..8 => self.exit(),
            8..11 => self.change_health(),
            11 => self.change_image(),
            12 => self.change_wire(),
            13 => self.rare(),
            14..20 => {
                let pause = self.dice.delay_ms();
                self.advance(pause);
            }
            _ => self.advance(900_000),
        }
        self.turn();
    }

    /// A manifest is written, perhaps one that was there before.
    fn edit(&mut self) {
        let (slot, variant) = (self.dice.index(SLOTS), self.dice.index(VARIANTS));
        self.put(self.library[slot][variant].clone());
    }

    fn remove(&mut self) {
        let name = self.library[self.dice.index(SLOTS)][0].full_name();
        self.desired.retain(|_, p| p.full_name() != name);
        self.has_news = true;
    }

    fn exit(&mut self) {
        let code = self.dice.pick(&[0, 1, 42, 139]);
        let (now, index) = (self.now(), self.dice.next());
        let mut dice = self.dice.clone();
        if let Some(instance) = some_instance(self, index) {
            instance.end(code, now, &mut dice);
        }
    }

    fn change_health(&mut self) {
        let coin = self.dice.below(4);
        let index = self.dice.next();
        if let Some(instance) = some_instance(self, index) {
            match coin {
                0 => instance.is_healthy = !instance.is_healthy,
                _ => instance.is_ready = !instance.is_ready,
            }
        }
    }

    fn change_image(&mut self) {
        let image = self.dice.pick(&IMAGES);
        if self.dice.one_in(3) {
            self.images.remove(image);
        } else {
            self.import(image);
        }
        self.has_news = true;
    }

    fn import(&mut self, image: &str) {
        let presence = ImagePresence::Present(format!("sha256:{image}"));
        self.images.insert(image.to_owned(), presence);
    }

    fn change_wire(&mut self) {
        let now_ms = self.boot_ms;
        let mut dice = self.dice.clone();
        if let Some(machine) = some_machine(self) {
            machine.break_connection(now_ms, &mut dice);
        }
    }

    fn rare(&mut self) {
        match self.dice.below(12) {
            0..3 => {
                if let Some(machine) = some_machine(self) {
                    machine.holder.kill();
                }
            }
            3..6 => {
                let pause = self.dice.delay_ms();
                self.kill_agent(pause);
            }
            6..9 => self.jump(),
            9 => self.reboot(),
            10 => self.halt(Halt::AgentStop),
            _ => {
                let since_boot_ms = self.boot_ms;
                self.halt(Halt::NodeShutdown { since_boot_ms });
                for _ in 0..self.dice.below(60) {
                    self.advance(60_000);
                    self.turn();
                }
                if self.dice.one_in(2) {
                    self.reboot();
                } else {
                    self.kill_agent(1000);
                }
            }
        }
    }

    fn halt(&mut self, halt: Halt) {
        if let Some(agent) = &mut self.agent {
            agent.halt = halt;
            self.has_news = true;
        }
    }

    /// Somebody sets the wall clock.
    fn jump(&mut self) {
        self.wall_offset_ms = match self.dice.below(4) {
            0 => self.wall_offset_ms + FIFTY_YEARS_MS,
            1 => self.wall_offset_ms - FIFTY_YEARS_MS,
            2 => -1_700_000_000_000,
            _ => 0,
        }
        .clamp(-2 * FIFTY_YEARS_MS, 2 * FIFTY_YEARS_MS);
        // The agent looks at the clock before anything else happens to it.
        self.has_news = true;
    }

    /// Power is cut. The run directory may be on a disk; the wall clock may have no battery.
    fn reboot(&mut self) {
        // What was set last is known, or else nobody can tell how long the node was off.
        self.turn();
        self.kill_agent(0);
        let on_disk = self.dice.one_in(2);
        let leaves_something = |machine: &mut Machine| on_disk && machine.holder.keep_exits();
        self.machines.retain(|_, machine| leaves_something(machine));
        let gap_ms = self.dice.below(100_000);
        self.true_ms += gap_ms;
        let passed_ms = i64::try_from(self.boot_ms + gap_ms).unwrap();
        self.wall_offset_ms = if self.dice.one_in(4) {
            -1_700_000_000_000
        } else {
            self.wall_offset_ms + passed_ms - 1000
        };
        self.boot_ms = 1000;
        self.laws.boots += 1;
        self.agent_at_ms = self.boot_ms;
        self.rules.boot_id = format!("boot-{}", self.dice.next());
    }

    /// Nothing goes wrong from here on, and everything is there.
    pub fn calm_down(&mut self) {
        self.dice.is_calm = true;
        for image in IMAGES {
            self.import(image);
        }
        for machine in self.machines.values_mut() {
            for instance in &mut machine.holder.instances {
                instance.is_healthy = true;
                instance.is_ready = true;
                instance.up_at_ms = 0;
            }
        }
        let is_halted = self.agent.as_ref().is_some_and(|a| a.halt != Halt::No);
        if is_halted {
            self.kill_agent(1000);
        }
        self.has_news = true;
    }
}

fn some_machine(world: &mut World) -> Option<&mut Machine> {
    let index = world.dice.index(world.machines.len().max(1));
    world.machines.values_mut().nth(index)
}

fn some_instance(world: &mut World, index: u64) -> Option<&mut Instance> {
    let instances = &mut some_machine(world)?.holder.instances;
    let count = u64::try_from(instances.len()).unwrap().max(1);
    instances.get_mut(usize::try_from(index % count).unwrap())
}
