package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
)

// Create makes a stream. One that stands already with the same mode and class is returned as it is;
// with others it is an error that wraps api.ErrStreamExists.
func (c *Client) Create(ctx context.Context, name string, mode novav1.Mode, class novav1.Class) (*novav1.StreamInfo, error) {
	s, err := c.names()
	if err != nil {
		return nil, err
	}
	info, err := s.Create(ctx, &novav1.CreateRequest{Name: name, Mode: mode, Class: class})
	return info, c.refusal("create stream "+name, err)
}

// Delete removes a stream and its records.
func (c *Client) Delete(ctx context.Context, name string) error {
	s, err := c.names()
	if err != nil {
		return err
	}
	_, err = s.Delete(ctx, &novav1.DeleteRequest{Name: name})
	return c.refusal("delete stream "+name, err)
}

// Describe tells what is known about a stream now.
func (c *Client) Describe(ctx context.Context, name string) (*novav1.StreamInfo, error) {
	s, err := c.names()
	if err != nil {
		return nil, err
	}
	info, err := s.Describe(ctx, &novav1.DescribeRequest{Name: name})
	return info, c.refusal("describe stream "+name, err)
}

// List yields the streams whose names begin with prefix. It ends after the first error.
func (c *Client) List(ctx context.Context, prefix string) iter.Seq2[*novav1.StreamInfo, error] {
	return pull(ctx, func(ctx context.Context) (receiver[novav1.StreamInfo], error) {
		s, err := c.names()
		if err != nil {
			return nil, err
		}
		return s.List(ctx, &novav1.ListRequest{Prefix: prefix})
	}, func(err error) error { return c.refusal("list streams", err) })
}

// Fleet lists the stars with what they last reported.
func (c *Client) Fleet(ctx context.Context) ([]*novav1.FleetStar, error) {
	a, err := c.admin()
	if err != nil {
		return nil, err
	}
	resp, err := a.Fleet(ctx, &novav1.FleetRequest{})
	return resp.GetStars(), c.refusal("list the fleet", err)
}

// Handoff moves the stream's leadership to the star target, or where placement would send it when
// target is empty.
func (c *Client) Handoff(ctx context.Context, stream, target string) (*novav1.AdminHandoffResponse, error) {
	a, err := c.admin()
	if err != nil {
		return nil, err
	}
	resp, err := a.Handoff(ctx, &novav1.AdminHandoffRequest{Name: stream, Target: target})
	return resp, c.refusal("hand off stream "+stream, err)
}

// Events yields the fleet's events, with Follow until ctx ends. It ends after the first error.
func (c *Client) Events(ctx context.Context, req *novav1.EventsRequest) iter.Seq2[*novav1.EventsResponse, error] {
	return pull(ctx, func(ctx context.Context) (receiver[novav1.EventsResponse], error) {
		a, err := c.admin()
		if err != nil {
			return nil, err
		}
		return a.Events(ctx, req)
	}, func(err error) error { return c.refusal("read events", err) })
}

func (c *Client) admin() (novav1.AdminClient, error) {
	conn, err := c.gateway()
	if err != nil {
		return nil, err
	}
	return novav1.NewAdminClient(conn), nil
}

func (c *Client) names() (novav1.StreamsClient, error) {
	conn, err := c.gateway()
	if err != nil {
		return nil, err
	}
	return novav1.NewStreamsClient(conn), nil
}

// refusal says what was being asked of whom, and which refusal the status stands for.
func (c *Client) refusal(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s at %s: %w", doing, c.cfg.Gateway, api.FromError(err))
}

// receiver is the reading half of a server-streaming call.
type receiver[T any] interface{ Recv() (*T, error) }

// pull turns a server-streaming call into a sequence, and ends the call with the loop.
func pull[T any](ctx context.Context, call func(context.Context) (receiver[T], error), refusal func(error) error) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		r, err := call(ctx)
		if err != nil {
			yield(nil, refusal(err))
			return
		}
		for {
			m, err := r.Recv()
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(m, refusal(err)) || err != nil {
				return
			}
		}
	}
}
