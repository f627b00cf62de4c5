package xsk

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// memorySocket has rings in memory and no descriptor, so drain gives up at once.
func memorySocket(size int, start uint32) *Socket {
	return &Socket{Fill: *memoryFill(size, start), RX: *memoryRX(size, start), TX: *memoryTX(size, start), Completion: *memoryCompletion(size, start), fd: -1}
}

// TestReclaimAccounts lets a kernel made of two queues pass frames on at random, and
// checks at some moment that Reclaim finds each frame that is not ours or the kernel's.
func TestReclaimAccounts(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		const frames = 64
		s := memorySocket(16, ^uint32(0)-uint32(random.IntN(64)))
		fill, rx := kernel[uint64]{&s.Fill.shared}, kernel[Desc]{&s.RX.shared}
		tx, completion := kernel[Desc]{&s.TX.shared}, kernel[uint64]{&s.Completion.shared}
		var ours, empty, sending []uint64
		for addr := range uint64(frames) {
			ours = append(ours, addr)
		}
		for range random.IntN(400) {
			var addrs [4]uint64
			var descs [4]Desc
			switch last := len(ours) - 1; random.IntN(8) {
			case 0:
				if last >= 0 && s.Fill.Push(ours[last:]) == 1 {
					ours = ours[:last]
				}
			case 1:
				if addr, ok := fill.take(); ok {
					empty = append(empty, addr)
				}
			case 2:
				if len(empty) > 0 && rx.give(Desc{Addr: empty[0]}) {
					empty = empty[1:]
				}
			case 3:
				for _, d := range descs[:s.RX.Pop(descs[:])] {
					ours = append(ours, d.Addr)
				}
			case 4, 5:
				if last >= 0 && s.TX.Push([]Desc{{Addr: ours[last]}}) == 1 {
					ours = ours[:last]
				}
			case 6:
				if d, ok := tx.take(); ok {
					sending = append(sending, d.Addr)
				}
				if len(sending) > 0 && random.IntN(2) == 0 && completion.give(sending[0]) {
					sending = sending[1:]
				}
			case 7:
				ours = append(ours, addrs[:s.Completion.Pop(addrs[:])]...)
			}
		}
		if got, want := s.Held(), (Held{RX: len(empty), TX: len(sending)}); got != want {
			t.Fatalf("held %+v, want %+v", got, want)
		}
		found, held := s.Reclaim(ours)
		if want := (Held{RX: len(empty), TX: len(sending)}); held != want {
			t.Fatalf("Reclaim says held %+v, want %+v", held, want)
		}
		all := slices.Sorted(slices.Values(slices.Concat(found, empty, sending)))
		for i, addr := range all {
			if len(all) != frames || addr != uint64(i) {
				t.Fatalf("%d frames found, held or ours: %v", len(all), all)
			}
		}
	}
}

// TestReclaimWithUnpublishedDrops has the kernel complete two dropped packets without
// publishing that it took them from the TX ring.
func TestReclaimWithUnpublishedDrops(t *testing.T) {
	s := memorySocket(8, 5)
	s.TX.Push([]Desc{{Addr: 1}, {Addr: 2}, {Addr: 3}})
	completion := kernel[uint64]{&s.Completion.shared}
	completion.give(1)
	completion.give(2)
	var popped [1]uint64
	if s.Completion.Pop(popped[:]) != 1 || popped[0] != 1 {
		t.Fatalf("popped %v", popped)
	}
	found, held := s.Reclaim(nil)
	slices.Sort(found)
	if !slices.Equal(found, []uint64{2, 3}) || held != (Held{}) {
		t.Errorf("found %v, held %+v; want 2 and 3 once each", found, held)
	}
}
